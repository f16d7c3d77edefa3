#!/bin/sh
# One usage event to Kafka with kcat (Debian: apt-get install kcat).
#   WEIR_KAFKA_BROKERS=127.0.0.1:19092 sh kcat.sh TENANT EVENT_ID
set -eu
if [ $# -ne 2 ]; then
  echo "usage: WEIR_KAFKA_BROKERS=HOST:PORT sh kcat.sh TENANT EVENT_ID" >&2
  exit 2
fi
printf '%s' '{"specversion": "1.0", "type": "weir.usage.v1", "source": "docs/examples/kafka", "id": "'"$2"'", "subject": "'"$1"'",
 "data": {"provider": "openai", "api": "chat.completions", "model": "gpt-4o", "agent_id": "nightly-report", "cost_center": "research",
          "usage": {"prompt_tokens": 1200, "completion_tokens": 80, "total_tokens": 1280}}}' |
  tr -d '\n' | kcat -P -b "$WEIR_KAFKA_BROKERS" -t usage.events.v1 -k "$1" -X acks=all -X partitioner=murmur2_random
echo "sent $2"

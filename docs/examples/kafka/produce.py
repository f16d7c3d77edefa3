"""One usage event to Kafka, with confluent-kafka (pip install -r requirements.txt).

    WEIR_KAFKA_BROKERS=127.0.0.1:19092 python3 produce.py TENANT EVENT_ID

The call was made without asking Weir: it is billed all the same, and counts against the tenant's budget.
"""

import datetime
import json
import os
import sys

TOPIC = "usage.events.v1"


def event(tenant, event_id):
    return {
        "specversion": "1.0", "type": "weir.usage.v1", "source": "docs/examples/kafka", "id": event_id, "subject": tenant,
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(),
        "data": {
            "provider": "openai", "api": "chat.completions", "model": "gpt-4o", "agent_id": "nightly-report", "cost_center": "research",
            "usage": {"prompt_tokens": 1200, "completion_tokens": 80, "total_tokens": 1280},
        },
    }


def main(tenant, event_id):
    from confluent_kafka import Producer  # here, so that the usage is told without it

    producer = Producer({
        "bootstrap.servers": os.environ["WEIR_KAFKA_BROKERS"],
        "acks": "all", "enable.idempotence": True,
        # The key is the tenant. Java's partitioner saves Weir a detour; any other one works too.
        "partitioner": "murmur2_random",
    })
    failures = []
    producer.produce(TOPIC, key=tenant, value=json.dumps(event(tenant, event_id)),
                     on_delivery=lambda error, _message: error and failures.append(error))
    left = producer.flush(30)
    if left or failures:
        print("not acknowledged:", failures, file=sys.stderr)
        return 1
    print("sent", event_id)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: WEIR_KAFKA_BROKERS=HOST:PORT python3 produce.py TENANT EVENT_ID", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))

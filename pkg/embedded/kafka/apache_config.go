package kafka

import (
	"fmt"
	"path/filepath"
	"strings"
)

// log4j2 sends warnings, and the line that says that the node started, to standard output, which is the log file.
const log4j2 = `status=warn
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %m (%c{1})%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
logger.server.name=kafka.server
logger.server.level=info
`

// properties is the node's configuration. A record that was acknowledged by acks=all is on two of three nodes.
func (n node) properties() string {
	replicas, inSync := min(n.nodes, 3), 1
	if replicas > 1 {
		inSync = 2
	}
	lines := []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", n.id),
		"controller.quorum.voters=" + n.voters,
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", n.broker, n.quorum),
		fmt.Sprintf("advertised.listeners=PLAINTEXT://127.0.0.1:%d", n.broker),
		"controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs=" + filepath.Join(n.dir, "data"),
		"auto.create.topics.enable=false",
		fmt.Sprintf("default.replication.factor=%d", replicas),
		fmt.Sprintf("min.insync.replicas=%d", inSync),
		fmt.Sprintf("offsets.topic.replication.factor=%d", replicas),
		"offsets.topic.num.partitions=10",
		fmt.Sprintf("transaction.state.log.replication.factor=%d", replicas),
		fmt.Sprintf("transaction.state.log.min.isr=%d", inSync),
		"transaction.state.log.num.partitions=10",
		fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", replicas),
		fmt.Sprintf("share.coordinator.state.topic.min.isr=%d", inSync),
		"group.initial.rebalance.delay.ms=0",
		// Ten years, as for kfake: a laptop that slept for a week must not lose its place.
		"offsets.retention.minutes=5270400",
	}
	return strings.Join(lines, "\n") + "\n"
}

# Least rights of the users `agent`, `aggregator` and `operator` (who publishes rules). Read it into a shell: . ./acls.sh
# With --kafka-prefix, all names of topics begin with the prefix.
allow() { kafka-acls.sh --bootstrap-server localhost:9092 --command-config admin.properties --add --allow-principal "User:$@"; }

allow agent --operation Write --topic calls --topic presence
allow agent --operation Read --topic signals --topic presence --topic rules
# For --decision-log kafka: allow agent --operation Create --operation Write --topic decisions

allow aggregator --operation Create --topic calls --topic signals --topic presence --topic rules --topic rollups --topic live
allow aggregator --operation Write --topic signals --topic presence --topic rollups --topic live
allow aggregator --operation Read --topic calls --topic presence --topic rules --topic rollups --topic live
# For --ledger, in the Kafka of the home region:
#   allow aggregator --operation Create --operation Read --operation Write --operation DescribeConfigs --topic ledger --topic usage

allow operator --operation Read --operation Write --topic rules
allow operator --operation Read --topic presence
allow operator --operation Describe --topic calls --topic signals

allow agent --allow-principal User:aggregator --allow-principal User:operator --operation DescribeConfigs --topic calls

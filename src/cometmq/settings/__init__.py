"""Settings: RocketMQ's names in files and on the command line, typed structs inside."""

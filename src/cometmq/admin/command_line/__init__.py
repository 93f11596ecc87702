"""The command line of the admin tool: arguments, the table of commands, and output."""

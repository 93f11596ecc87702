"""The admin tool: functions that return values, and the table of commands that call them.

Programs call the same functions with an `AdminSession`.
"""

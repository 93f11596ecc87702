"""The admin tool: functions that return values, one file per room, and the table of its commands.

A console or a program calls the same functions with an `AdminSession`.
"""

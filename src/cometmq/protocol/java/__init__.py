"""Formats of Java: hash codes, numbers, .properties files, fastjson's JSON."""

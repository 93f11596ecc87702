"""Java's formats, reproduced: hash codes, numbers, .properties files, fastjson."""

"""The results of jobs: tables, files and charts."""

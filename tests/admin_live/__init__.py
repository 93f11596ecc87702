"""Our admin tool on clusters that run, which end with the last of these tests."""

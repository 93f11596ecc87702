"""What orderly consumers may do: nothing is passed over; only a new member begins further back."""


def done_in_order(lines):
    """Per queue, the bodies that were done; an AssertionError where order was broken.

    At least once: a member that takes over a queue begins at the last offset that was committed,
    which may be before the last message that the other one did.
    """
    queues = {}
    for line in lines:
        queues.setdefault((line["broker"], line["queue"]), []).append(line)
    done = {}
    for queue, tried in queues.items():
        expected, member = 0, None
        for line in tried:
            if line["event"] != member and line["offset"] < expected:
                expected = line["offset"]
            member = line["event"]
            assert line["offset"] == expected, "nothing is passed over and nothing comes back"
            expected += line["ok"]
        done[queue] = {line["body"] for line in tried if line["ok"]}
    return done


def of_members(observed):
    """What the members of the group told."""
    return [line for line in observed.of("Orderly") if line["event"].startswith("member")]

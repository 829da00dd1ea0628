#!/bin/sh
# Stands for an interpreter that runs operators: does what the function's name says, in the words of an operator's process.
case "${3##*/}" in
    ops:steady|ops.py:steady)
        echo '{"event": "ready"}'
        exec 3<&0
        cat <&3 >/dev/null &
        # Until its leash is let go.
        while kill -0 $! 2>/dev/null; do
            echo '{"event": "report", "behind_ns": 0, "offered_samples": 10, "source_samples": 4, "delivered_elements": 6, "lost_elements": {"injected": 4}, "unexplained_elements": 0}'
            sleep 0.1
        done
        ;;
    ops:lagging)
        echo '{"event": "ready"}'
        echo '{"event": "report", "behind_ns": 2000000000, "offered_samples": 0, "source_samples": 0, "delivered_elements": 0, "lost_elements": {}, "unexplained_elements": 0}'
        exec cat
        ;;
    ops:failing)
        echo 'Traceback (most recent call last):' >&2
        echo 'ValueError: no such filter' >&2
        exit 1
        ;;
    ops:deaf)
        echo '{"event": "ready"}'
        exec sleep 600
        ;;
esac

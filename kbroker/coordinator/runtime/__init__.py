"""The runtime of coordinators: shards of replicated state, their timelines, writes and replays."""

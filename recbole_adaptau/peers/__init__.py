"""Models that RecBole lacks and ours are compared with; a file that defines one makes it known by its class name."""

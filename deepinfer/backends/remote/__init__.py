"""An engine that is elsewhere: requests go to other servers over HTTP, and their tokens come back as outputs."""

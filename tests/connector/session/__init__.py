"""The session, the planner process, options and errors of the connector."""

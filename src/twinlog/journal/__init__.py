"""The journal: a topic on the target through which the planner, the tasks and every observer of a flow communicate."""

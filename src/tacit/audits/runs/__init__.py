"""Runs of somebody's training: tasks, the workers that perform them, their budget and their journal."""

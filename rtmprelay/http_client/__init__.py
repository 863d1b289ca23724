"""Telling or asking another server something over HTTP, within bounds."""

"""Helpers without a domain. Private: they may change in any release.

What integrations need of them is in `ace.integrations`.
"""

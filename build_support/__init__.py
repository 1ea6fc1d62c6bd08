"""What setup.py needs to build `hygon_backend._C`: pick a target, check its tools, compile, link.

Decisions are functions of their arguments (environment mapping, `which`, machine facts); only
`machine.probe_machine` and the running of compilers look at the machine itself.
"""

# Frozen beside it on boards with a network, whose manifests include this one: what a board of a fleet runs.
package("mica", files=("fleet.py", "mqtt.py"))

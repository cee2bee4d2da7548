# Frozen into every firmware: the runtime package. A board's manifest includes this one after its port's own.
package("mica")

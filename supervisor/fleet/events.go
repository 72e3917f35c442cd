package fleet

// The reasons of events.
const (
	eventLost     = "FleetLost"     // the store cannot be reached: what was known last goes on being served
	eventBack     = "FleetBack"     // it can be again
	eventHostLost = "FleetHostLost" // another host's lease has ended
	eventHostBack = "FleetHostBack"
	eventError    = "FleetError" // the store, or what is in it, is not as it should be
)

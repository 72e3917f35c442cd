package fleet

import "healthd/supervisor/core"

// The reasons of events.
const (
	eventLost     = core.EventFleetLost
	eventBack     = core.EventFleetBack
	eventHostLost = core.EventFleetHostLost
	eventHostBack = core.EventFleetHostBack
	eventError    = core.EventFleetError
)

package harness

// Specs with %[1]q for the name of the spec and the value of the label e2e that it matches.

// WebSpec is a published web service with a readiness probe.
const WebSpec = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "500ms"
[spec.publish]
service = %[1]q
port = 8080
`

// SickSpec follows readiness quickly, and restarts with a short back-off.
const SickSpec = `
[[spec]]
name = %[1]q
match = { e2e = %[1]q }
[spec.readiness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
failure_threshold = 1
[spec.backoff]
initial = "1s"
max = "2s"
`

// HangsSpec is SickSpec with a liveness probe.
const HangsSpec = SickSpec + `
[spec.liveness]
http_get = { port = 8080, path = "/healthz" }
period = "200ms"
termination_grace_period = "2s"
`

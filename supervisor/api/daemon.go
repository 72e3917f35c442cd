package api

import "net/http"

// Daemon is what the daemon says about itself and its host.
type Daemon struct {
	Warnings []string `json:"warnings"`
}

func (a *API) daemon(w http.ResponseWriter, _ *http.Request) {
	d := Daemon{Warnings: []string{}}
	if a.warnings != nil {
		d.Warnings = append(d.Warnings, a.warnings()...)
	}
	a.json(w, http.StatusOK, d)
}

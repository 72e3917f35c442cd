package api

import "net/http"

// Daemon is what is to be said of the daemon and its host, and of no one container.
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

package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"healthd/supervisor"
)

// How far back a report may reach. LongestReport has room for the time that a request takes.
const (
	LeastReport   = time.Hour
	DefaultReport = 7 * 24 * time.Hour
	LongestReport = 90*24*time.Hour + time.Minute
)

// Report is how healthy services were over some time.
type Report struct {
	From     time.Time       `json:"from"`
	To       time.Time       `json:"to"`
	Since    time.Time       `json:"since"`   // healthd keeps a report since then; zero: it has not begun
	Omitted  int             `json:"omitted"` // services for which there was no room
	Services []ServiceReport `json:"services"`
}

// ServiceReport is the part of a service.
type ServiceReport struct {
	Name    string       `json:"name"`
	Project string       `json:"project"`
	Total   ReportPeriod `json:"total"`
	Days    []ReportDay  `json:"days"` // empty unless one service was asked for
}

// ReportDay is the part of a day in UTC.
type ReportDay struct {
	Day    string       `json:"day"`
	Period ReportPeriod `json:"period"`
}

// ReportPeriod is what was observed of a service in some time.
type ReportPeriod struct {
	ObservedSeconds      float64        `json:"observedSeconds"`
	StoppedSeconds       float64        `json:"stoppedSeconds"`
	ReadySeconds         float64        `json:"readySeconds"`
	CapacitySeconds      float64        `json:"capacitySeconds"`
	Outages              int            `json:"outages"`
	LongestOutageSeconds float64        `json:"longestOutageSeconds"`
	Restarts             map[string]int `json:"restarts"` // by cause; only those that there were
	Detections           int            `json:"detections"`
	DetectionSumSeconds  float64        `json:"detectionSumSeconds"`
	DetectionMaxSeconds  float64        `json:"detectionMaxSeconds"`
}

// CheckReport returns an error unless a report may begin at since.
func CheckReport(since, now time.Time) error {
	if age := now.Sub(since); age < LeastReport || age > LongestReport {
		return errors.New("since must be from 1h to 90d ago")
	}
	return nil
}

func (a *API) reportOf(w http.ResponseWriter, r *http.Request) {
	query, now := r.URL.Query(), time.Now()
	since, err := ParseSince(query.Get("since"), now)
	if since.IsZero() && err == nil {
		since = now.Add(-DefaultReport)
	}
	if err == nil {
		err = CheckReport(since, now)
	}
	if err != nil {
		a.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	service := query.Get("service")
	report, err := a.report(service, since)
	switch _, several := errors.AsType[*supervisor.AmbiguousServiceError](err); {
	case several:
		a.fail(w, http.StatusServiceUnavailable, err.Error())
	case err != nil:
		a.fail(w, http.StatusNotFound, fmt.Sprintf("nothing is known of a service %q", service))
	default:
		a.json(w, http.StatusOK, report)
	}
}

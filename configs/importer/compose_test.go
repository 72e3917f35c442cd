package importer

import (
	"strings"
	"testing"

	"healthd/supervisor/core"
)

// Compose itself takes deploy.restart_policy where there is one, also beside restart. What it never restarts must not
// get a liveness probe.
func TestComposeRestartPolicies(t *testing.T) {
	for text, want := range map[string]core.RestartPolicy{
		`restart: always`:       core.Always,
		`restart: on-failure:3`: core.OnFailure,
		`restart: sometimes`:    core.Never,
		`restart: "no"`:         core.Never,
		`restart: ""`:           core.Never,
		`restart: always, deploy: {restart_policy: {condition: none}}`:                       core.Never,
		`restart: always, deploy: {restart_policy: {condition: on-failure}}`:                 core.OnFailure,
		`restart: always, deploy: {restart_policy: {max_attempts: 3}}`:                       core.Never,
		`restart: "no", deploy: {restart_policy: {condition: any}}`:                          core.Always,
		`restart: always, deploy: {replicas: 2}`:                                             core.Always,
		`deploy: {restart_policy: {condition: unless-stopped}}`:                              core.Always,
		`restart: on-failure:3, deploy: {restart_policy: {condition: any, max_attempts: 9}}`: core.Always,
	} {
		file := "name: shop\nservices:\n  web: {image: web, healthcheck: {test: x}, " + text + "}\n"
		of, _ := resolvedText(t, composeFiles(t), file)
		spec := of("shop", "web")
		if live := spec.Probes[core.Liveness] != nil; spec.RestartPolicy != want || live != (want != core.Never) {
			t.Errorf("%s: %s, liveness %v, want %s", text, spec.RestartPolicy, live, want)
		}
	}
}

// A healthcheck without a test counts on one of the image.
func TestComposeHealthcheckWithoutTest(t *testing.T) {
	_, text := resolvedText(t, composeFiles(t), "name: shop\nservices:\n  web: {image: web, restart: always, healthcheck: {interval: 5s}}\n")
	if !strings.Contains(text, "Unknown for ever") {
		t.Errorf("no word of the image:\n%s", text)
	}
}

// A receiver of messages is told of, and its address is not.
func TestReceiversOfAutoheal(t *testing.T) {
	_, text := resolvedText(t, composeFiles(t), "name: shop\nservices:\n  heal: {image: willfarrell/autoheal, environment: {AUTOHEAL_NOTIFICATION_GOTIFY_URL: \"https://s3cret\"}}\n")
	if !strings.Contains(text, "AUTOHEAL_NOTIFICATION_GOTIFY_URL: a webhook") || strings.Contains(text, "s3cret") {
		t.Errorf("got:\n%s", text)
	}
}

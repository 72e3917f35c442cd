package notify

import (
	"context"
	"encoding/json"
	"fmt"

	"healthd/runtime/hostproc"
	"healthd/supervisor"
)

// sendCommand runs a command with the message as JSON on its stdin. The exit code 0 is a success.
func sendCommand(ctx context.Context, command []string, m *Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	output, err := runCommand(ctx, command, hostproc.BareEnvironment(), supervisor.Escape(body))
	if err != nil && output != "" {
		return fmt.Errorf("%w: %s", err, output)
	}
	return err
}

// runCommand runs a command and returns the begin of its output in one line.
func runCommand(ctx context.Context, command, environment []string, input []byte) (said string, err error) {
	said, err = hostproc.RunCommand(ctx, command, environment, input)
	return clip(said), err
}

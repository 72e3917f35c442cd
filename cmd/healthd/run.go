package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
)

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the daemon",
		Long: "Run the daemon in the foreground. SIGTERM or SIGINT ends it when the restarts under way are\n" +
			"done; a second one ends it at once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			log, err := newLogger(c.Log, os.Stderr)
			if err != nil {
				return fmt.Errorf("cannot log: %w", err)
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			defer obeySignals(cancel, log)()
			return run(ctx, c, log)
		},
	}
}

// obeySignals calls stop at the first signal to end and exits at the second. The
// function it returns gives the signals back.
func obeySignals(stop func(), log *zap.Logger) (release func()) {
	signals := make(chan os.Signal, 4)
	done, ended := make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		defer close(ended)
		stopping := false
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				switch {
				case s == syscall.SIGHUP:
					log.Warn("reloading is not there yet: restart healthd to make it read its configuration again")
				case stopping:
					log.Error("ending at once, restarts under way are left as they are", zap.Stringer("signal", s))
					_ = log.Sync()
					os.Exit(exitFailure)
				default:
					stopping = true
					log.Info("stopping when the restarts under way are done", zap.Stringer("signal", s))
					stop()
				}
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}

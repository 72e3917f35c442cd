package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"healthd/configs"
)

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "run",
		Example: "  healthd run --config /etc/healthd/healthd.toml",
		Short:   "Run the daemon",
		Long: "Run the daemon in the foreground. SIGHUP reloads the configuration. SIGTERM or SIGINT\n" +
			"finishes the restarts under way and then ends the daemon, after [daemon] shutdown at the\n" +
			"latest; a second one ends it at once.\n" +
			"Under systemd the exit code is 78 where only mending the configuration or rights helps.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hangups := make(chan os.Signal, 1) // more would reload the same files
			signal.Notify(hangups, syscall.SIGHUP)
			outliveReader() // of the log; to the end
			if autoFormat(os.Stderr) == "journal" {
				a.stderr = leveled{a.stderr}
			}
			c, err := a.loadToRun()
			if err != nil {
				return err
			}
			log, queue, err := newLogger(c.Log, os.Stderr)
			if err != nil {
				return fmt.Errorf("cannot log: %w", err)
			}
			defer a.endLog(log, queue)
			// Libraries' own messages help to find the cause of a problem.
			restore, err := zap.RedirectStdLogAt(log, zapcore.DebugLevel)
			if err != nil {
				return fmt.Errorf("cannot log: %w", err)
			}
			defer restore()
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			r := newReloads(func() (*configs.Config, error) { return configs.Load(a.configs) })
			defer handleSignals(hangups, cancel, r.request, log)()
			return run(ctx, c, r, log, queue)
		},
	}
}

// endLog writes the rest of the log. What does not read that would not read an error either, and healthd is to end.
func (a *app) endLog(log *zap.Logger, queue *logQueue) {
	if queue.close(logPatience) != nil {
		a.stderr = io.Discard
	}
	_ = log.Sync()
}

// loadToRun is load, and tells systemd the first problem.
func (a *app) loadToRun() (*configs.Config, error) {
	c, err := a.load()
	if err == nil {
		return c, nil
	}
	text := line(err.Error())
	if problems, ok := errors.AsType[configs.Problems](err); ok {
		text = setupStatus(problems)
	}
	(&notifier{log: zap.NewNop()}).setStatus(text)
	return nil, setupError{err}
}

// setupStatus says in one line what is wrong with a configuration, and what to do.
func setupStatus(problems configs.Problems) string {
	text := "cannot use the configuration: " + shorten(line(problems[0].String()), maxStatusPart)
	if more := len(problems) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more: healthd check)", more)
	}
	return text + ": mend it, then systemctl restart healthd"
}

// handleSignals calls stop at the first SIGINT or SIGTERM, exits at the second, and calls
// reload at each of hangups. It acts first, and then logs. release ends that.
func handleSignals(hangups <-chan os.Signal, stop, reload func(), log *zap.Logger) (release func()) {
	ends := make(chan os.Signal, 2)
	done, ended := make(chan struct{}), make(chan struct{})
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		defer close(ended)
		stopping := false
		for {
			select {
			case <-done:
				return
			case s := <-hangups:
				if stopping {
					log.Warn("cannot reload the configuration: healthd is stopping")
					continue
				}
				reload()
				log.Info("reloading the configuration", zap.Stringer("signal", s))
			case s := <-ends:
				if stopping {
					log.Error("ending at once, the next daemon finishes the restarts under way", zap.Stringer("signal", s))
					_ = log.Sync() // which has a bound
					os.Exit(exitFailure)
				}
				stopping = true
				stop()
				log.Info("finishing the restarts under way, then stopping", zap.Stringer("signal", s))
			}
		}
	}()
	return func() {
		signal.Stop(ends) // not hangups: one more would end healthd amid its end
		close(done)
		<-ended
	}
}

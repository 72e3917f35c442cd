// Command healthd supervises the health of the containers of one host. "healthd help" lists
// its commands. healthd run is the daemon; the others are clients of its control socket.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitSetup   = 78 // EX_CONFIG of sysexits.h; only of a daemon under systemd
)

// errReported ends a command with exitFailure when its errors are printed already.
var errReported = errors.New("said already")

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func main() {
	a := &app{
		stdout: os.Stdout, stderr: os.Stderr,
		colours: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		size:    func() (int, int, bool) { return terminalSize(os.Stdout) },
	}
	// Go cannot end the main thread, so probes take a detour around it on their way into a
	// container's network namespace. This goroutine keeps it from them, and only waits.
	runtime.LockOSThread()
	code := make(chan int)
	go func() { code <- a.execute(os.Args[1:]) }()
	os.Exit(<-code)
}

// terminalSize returns the size of a terminal, and whether f is one. A terminal that reports
// the size 0 is taken to be 80 by 24.
func terminalSize(f *os.File) (width, height int, ok bool) {
	const usualWidth, usualHeight = 80, 24
	if !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, _ = term.GetSize(int(f.Fd()))
	if width <= 0 {
		width = usualWidth
	}
	if height <= 0 {
		height = usualHeight
	}
	return width, height, true
}

// app is what all commands share.
type app struct {
	stdout, stderr io.Writer
	colours        bool
	size           func() (width, height int, ok bool) // of the terminal that stdout is

	configs []string // --config
	socket  string   // --socket
	began   bool     // the command line was right
}

// execute runs one command line and returns the exit code.
func (a *app) execute(args []string) int {
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	if _, usage := errors.AsType[usageError](err); usage || !a.began {
		fmt.Fprintf(a.stderr, "healthd: %v\nTry '%s --help'.\n", err, cmd.CommandPath())
		if underSystemd() { // 2 is also how Go ends after a panic
			return exitSetup
		}
		return exitUsage
	}
	if !errors.Is(err, errReported) {
		a.printError(err)
	}
	if _, setup := errors.AsType[setupError](err); setup && underSystemd() {
		return exitSetup
	}
	return exitFailure
}

// printError prints an error, or each of several.
func (a *app) printError(err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			a.printError(err)
		}
		return
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Op == "write" {
		err = fmt.Errorf("cannot print: %w", err)
	}
	fmt.Fprintln(a.stderr, "healthd:", printable(err.Error()))
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "healthd",
		Short:         "Container health supervisor for this host",
		Example:       "  healthd check\n  healthd status\n  healthd explain shop-web-1",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       thisBuild().version, // cobra adds the flag
		PersistentPreRun: func(*cobra.Command, []string) {
			a.began = true
		},
	}
	root.SetVersionTemplate(versionText())
	root.PersistentFlags().StringArrayVar(&a.configs, "config", nil,
		"read the configuration at `PATH`, a file or a directory of *.toml files; may be repeated\n"+
			"(default /etc/healthd/healthd.toml and /etc/healthd/conf.d)")
	root.PersistentFlags().StringVar(&a.socket, "socket", "",
		"use the daemon's control socket at `PATH` (default: as configured)")
	root.AddCommand(
		a.runCommand(), a.checkCommand(), a.reloadCommand(), a.liveCommand(), a.statusCommand(), a.explainCommand(), a.eventsCommand(), a.whyCommand(), a.reportCommand(),
		a.probeCommand(), a.restartCommand(), a.holdCommand(), a.resumeCommand(), a.gateCommand(), a.importCommand(), a.notifyCommand(), a.versionCommand(),
	)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Example = "  healthd completion bash > /etc/bash_completion.d/healthd"
			cmd.Args = argCount(0, 0) // any other argument names no shell that is known
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			cmd.Example = "  healthd help status"
			cmd.Args = nameCommand
		}
	}
	return root
}

// nameCommand checks that the arguments of help lead to a command.
func nameCommand(help *cobra.Command, args []string) error {
	at := help.Root()
	for _, name := range args {
		i := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			return usageError{fmt.Errorf("unknown command %q for %q", name, at.CommandPath())}
		}
		at = at.Commands()[i]
	}
	return nil
}

// interruptible returns a context that ends at SIGINT or SIGTERM.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// outliveReader has a write fail whose reader is gone, such as head, until it is undone. Without it that ends the
// program, in the middle of its work. Commands that only print want just that.
func outliveReader() (undo func()) {
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGPIPE)
	return func() { signal.Stop(closed) }
}

// oneOf checks a flag that takes one of a few words.
func oneOf(flag, value string, words ...string) error {
	for _, w := range words {
		if value == w {
			return nil
		}
	}
	return usageError{fmt.Errorf("--%s must be one of %s, it is %q", flag, strings.Join(words, ", "), value)}
}

// argCount checks the number of arguments.
func argCount(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		name, rest, _ := strings.Cut(cmd.Use, " ")
		if most == 0 {
			rest = "no arguments"
		}
		return usageError{fmt.Errorf("%s takes %s, not %s", name, rest, plural(len(args), "argument"))}
	}
}

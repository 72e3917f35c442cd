// Command healthd supervises the health of the containers of one host. See the
// command "healthd help".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
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
)

// errSaid ends a command with exitFailure when everything has been said.
var errSaid = errors.New("said already")

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func main() {
	a := &app{
		stdout: os.Stdout, stderr: os.Stderr,
		colours: term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		size:    func() (int, int, bool) { return terminalSize(os.Stdout) },
	}
	os.Exit(a.execute(os.Args[1:]))
}

// terminalSize returns how large a terminal is, and says whether f is one. Those that
// nobody has told their size say 0, and are taken to be what terminals once were.
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
		return exitUsage
	}
	if !errors.Is(err, errSaid) {
		a.complain(err)
	}
	return exitFailure
}

// complain prints an error, or each of several.
func (a *app) complain(err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			a.complain(err)
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
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.began = true
		},
	}
	root.PersistentFlags().StringArrayVar(&a.configs, "config", nil,
		"read the configuration at `PATH`, a file or a directory of *.toml files; may be repeated\n"+
			"(default /etc/healthd/healthd.toml and /etc/healthd/conf.d)")
	root.PersistentFlags().StringVar(&a.socket, "socket", "",
		"use the daemon's control socket at `PATH` (default: as configured)")
	root.AddCommand(
		a.runCommand(), a.checkCommand(), a.statusCommand(), a.explainCommand(), a.eventsCommand(),
		a.probeCommand(), a.restartCommand(), a.holdCommand(), a.resumeCommand(), a.gateCommand(), a.versionCommand(),
	)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args = takes(0, 0) // any other argument names no shell that is known
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
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

// interruptible returns a context that ends when the user has had enough.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
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

// takes checks the number of arguments, and says which there should be.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		name, rest, _ := strings.Cut(cmd.Use, " ")
		if most == 0 {
			rest = "no arguments"
		}
		return usageError{fmt.Errorf("%s takes %s, not %s", name, rest, count(len(args), "argument"))}
	}
}

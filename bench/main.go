// Command bench measures the built healthd with as many containers as it is asked for: an engine without
// containers (bench/engine) and the targets of the probes (bench/targets) are processes of their own on one
// core; healthd is a third one. It prints a table of what was reached beside what should be.
//
//	go run ./bench -binary bin/healthd
//	go run ./bench -binary bin/healthd -only steady -containers 1000 -period 1s -seconds 60
//
// With "soak" as its first argument it plays a host for minutes or hours, and fails if what healthd holds grows, or if healthd
// restarts a container that it should not, or does not restart one that it should:
//
//	go run ./bench soak -binary bin/healthd -for 20m
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"healthd/bench/engine"
	"healthd/bench/targets"
)

// workload is what a measurement can be told.
type workload struct {
	binary     string
	containers int
	period     time.Duration
	seconds    int             // of each window
	churn      int             // starts, and as many stops, per second
	failing    float64         // share of containers that fail in the phase failing
	backends   int             // of HAProxy; 0: first many, then one
	profiles   string          // directory; empty: none are taken
	given      map[string]bool // flags that were set
}

// byDefault sets what no flag did.
func (w *workload) byDefault(containers int, period time.Duration, seconds int) {
	if !w.given["containers"] {
		w.containers = containers
	}
	if !w.given["period"] {
		w.period = period
	}
	if !w.given["seconds"] {
		w.seconds = seconds
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	role, args := "", os.Args[1:]
	if len(args) > 0 {
		role = args[0]
	}
	var err error
	switch role {
	case "engine":
		err = runEngine(ctx, args[1:])
	case "targets":
		err = runTargets(ctx, args[1:])
	case "soak":
		err = runSoak(ctx, args[1:])
	default:
		err = measure(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func runEngine(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("engine", flag.ExitOnError)
	socket := flags.String("socket", "", "the Unix socket to listen on")
	var c engine.Config
	flags.IntVar(&c.Containers, "containers", 100, "how many containers it has")
	flags.IntVar(&c.Own, "own", 0, fmt.Sprintf("how many of them have ports of their own, at most %d", engine.MaxOwn))
	flags.IntVar(&c.Groups, "groups", 0, "over how many services they are spread; 0: each is its own")
	flags.DurationVar(&c.ExecTime, "exec-time", 0, "how long a command takes")
	_ = flags.Parse(args)
	ln, err := net.Listen("unix", *socket)
	if err != nil {
		return err
	}
	return engine.New(c).Serve(ctx, ln)
}

func runTargets(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("targets", flag.ExitOnError)
	own := flags.Int("own", 0, "how many containers have ports of their own")
	socket := flags.String("socket", "", "the Unix socket to be asked on")
	_ = flags.Parse(args)
	ln, err := net.Listen("unix", *socket)
	if err != nil {
		return err
	}
	t := targets.New(*own)
	control := &http.Server{Handler: t.Handler()}
	context.AfterFunc(ctx, func() { _ = control.Close() })
	go func() { _ = control.Serve(ln) }()
	return t.Serve(ctx)
}

func measure(ctx context.Context) error {
	var w workload
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	flag.StringVar(&w.binary, "binary", "bin/healthd", "healthd's binary")
	flag.IntVar(&w.containers, "containers", 10_000, "how many containers there are")
	flag.DurationVar(&w.period, "period", 10*time.Second, "period of the probes")
	flag.IntVar(&w.seconds, "seconds", 60, "length of each window")
	flag.IntVar(&w.churn, "churn", 100, "starts, and as many stops, in each second of the churn")
	flag.Float64Var(&w.failing, "failing", 0.1, "share of the containers whose probes fail in the scenario failing")
	flag.IntVar(&w.backends, "backends", 0, fmt.Sprintf("of HAProxy in the scenario balancer, %d or 1; 0: first the one, then the other", engine.Kinds))
	flag.StringVar(&w.profiles, "profiles", "", "directory for CPU and heap profiles of each scenario; empty: none")
	only := flag.String("only", "", "regular expression of the scenarios to run: "+strings.Join(names, ", "))
	flag.Parse()
	w.given = map[string]bool{}
	flag.Visit(func(f *flag.Flag) { w.given[f.Name] = true })
	wanted, err := regexp.Compile("^(" + *only + ")$")
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	var results table
	for _, s := range scenarios {
		if *only != "" && !wanted.MatchString(s.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s: %s\n", s.name, s.about)
		if err := s.run(ctx, w, &results); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Print(results.String())
	return nil
}

// Package harness drives the built healthd as its users do, against private real engines: configuration files,
// container labels, the command line, HTTP. The packages of e2e hold the tests, by subject.
//
//	e := harness.Docker.Engine(t)           the engine that the tests of a package share
//	d := harness.StartDaemonOn(t, e, specs) a healthd on it
//	d.Until("web", "ready", harness.Ready)  waits as long as it takes
//
// Tests wait by package patience: nothing here bounds how long a thing may take.
package harness

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"healthd/runtime/containerd/containerdtest"
	"healthd/runtime/docker/dockertest"
)

// Docker and Containerd are the engines that the tests of a package share. Each starts when the first test asks for it.
var (
	Docker     dockertest.Shared
	Containerd containerdtest.Shared
)

// Main runs the tests of a package and ends what they share. It returns what TestMain exits with.
func Main(m *testing.M) int {
	flag.Parse()
	if err := doubleParallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	code := max(Docker.Main(m), Containerd.Close())
	if dir, err := Built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	return code
}

// MainOfRingTwo is Main for a package of which make test runs nothing.
func MainOfRingTwo(m *testing.M, target string) int {
	flag.Parse()
	if testing.Short() {
		fmt.Println(target, "runs these tests")
		return 0
	}
	return Main(m)
}

// RingTwo leaves a test to that target of the Makefile, a part of make test-all: make test has -short.
func RingTwo(t *testing.T, target string) {
	t.Helper()
	if testing.Short() {
		t.Skip(target + " runs it")
	}
}

// doubleParallel runs twice as many tests at once as go test would, unless -parallel is
// set: a test needs a quarter of a core, and waits for the rest of its time.
func doubleParallel() error {
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if told {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
}

var (
	// Program is healthd. Where the tests run under the race detector, so does it.
	Program = sync.OnceValues(func() (string, error) {
		if raceDetector {
			return build("healthd", "-race")
		}
		return PlainProgram()
	})
	// PlainProgram is what users run: the race detector takes several times the memory.
	PlainProgram = sync.OnceValues(func() (string, error) { return build("healthd-plain") })
	// Built is a directory for what the tests of a package build.
	Built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "healthd-e2e") })
)

// build builds healthd with these flags.
func build(name string, flags ...string) (string, error) {
	dir, err := Built()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	args := slices.Concat([]string{"build", "-buildvcs=false"}, flags, []string{"-o", path, "healthd/cmd/healthd"})
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot build healthd: %w: %s", err, out)
	}
	return path, nil
}

// FindProgram returns the path of a program. Without it the test fails.
func FindProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("cannot find %s: run the target of the Makefile, which installs it", name)
	}
	return path
}

// Buffer collects what a process prints while it is being read.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// PortOf returns the port of an address.
func PortOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// screenful is how many lines of a flight record the demo prints.
const screenful = 22

// recorded says whether healthd has stopped the hung container yet: there is a record then.
func (s *demo) recorded() bool {
	events, err := s.hungEvents()
	return err == nil && slices.ContainsFunc(events, func(e event) bool { return e.Reason == "Exited" })
}

// why prints the begin of what healthd recorded before it stopped the hung container last.
func (s *demo) why() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := s.command(ctx, "why", hungContainer).CombinedOutput()
	if err != nil {
		return fmt.Errorf("healthd why %s: %w\n%s", hungContainer, err, out)
	}
	fmt.Printf("\n$ healthd why %s\n%s", hungContainer, firstLines(string(out), screenful))
	return nil
}

// firstLines returns the first lines of a text, and says how many are left out.
func firstLines(text string, most int) string {
	lines := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	if len(lines) <= most {
		return strings.Join(lines, "")
	}
	return strings.Join(lines[:most], "") + fmt.Sprintf("… and %d lines more\n", len(lines)-most)
}

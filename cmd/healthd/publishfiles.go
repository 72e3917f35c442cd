package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"healthd/configs"
	"healthd/supervisor/files"
	"healthd/supervisor/journal"
)

// newPublisher returns who writes these files.
func newPublisher(c *configs.Config, all []files.File, j *journal.Journal) *files.Publisher {
	return files.New(files.Config{History: j, StateDir: c.State.Dir, Files: all})
}

// filesOf returns the files that a configuration wants, with their templates, which are read now and tried. The error is of
// type configs.Problems.
func filesOf(c *configs.Config) ([]files.File, error) {
	var all []files.File
	var problems configs.Problems
	places := targets{state: leadsTo(c.State.Dir), paths: map[string]string{}}
	for i := range c.PublishFiles {
		f := &c.PublishFiles[i]
		open := files.Shipped
		if f.Own() {
			open = files.Open
		}
		t, err := open(f.Template)
		if err == nil {
			err = t.Try(f.Covers)
		}
		if err != nil {
			problems = append(problems, f.TemplateProblem(err.Error()))
			continue
		}
		if text := places.clash(f); text != "" {
			problems = append(problems, f.PathProblem(text))
			continue
		}
		all = append(all, files.File{
			Path: f.Path, Template: t, Covers: f.Covers, Services: f.Services, Check: f.Check, Reload: f.Reload,
			MinInterval: f.MinInterval, Timeout: f.Timeout, Drain: f.Drain,
		})
	}
	if problems != nil {
		return nil, problems
	}
	return all, nil
}

// targets are the files that published files replace.
type targets struct {
	state string            // healthd's own directory; empty: none
	paths map[string]string // by target
}

// clash returns why a file must not be written, with a verb; empty: it may. Links are followed: two files in one place would replace each
// other without end.
func (t *targets) clash(f *configs.PublishFile) string {
	target := leadsTo(f.Path)
	other, twice := t.paths[target]
	t.paths[target] = f.Path
	switch {
	case twice:
		return fmt.Sprintf("leads to %s, as %s does", target, other)
	case f.Own() && leadsTo(f.Template) == target:
		return "is also the template: healthd would replace it"
	case t.state != "" && strings.HasPrefix(target, t.state+"/"):
		return "must not be in healthd's own state directory"
	}
	return ""
}

// leadsTo follows links, where all of a path is there but its end.
func leadsTo(path string) string {
	if path == "" {
		return ""
	}
	if target, err := files.Resolve(path); err == nil {
		return target
	}
	return filepath.Clean(path)
}

// loadConfig is configs.Load that also finds what is wrong with the templates of published files.
func loadConfig(paths []string) (*configs.Config, error) {
	c, err := configs.Load(paths)
	if err != nil {
		return nil, err
	}
	if _, err := filesOf(c); err != nil {
		return nil, err
	}
	return c, nil
}

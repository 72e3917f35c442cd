package main

import (
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

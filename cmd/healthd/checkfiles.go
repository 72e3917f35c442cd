package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"healthd/configs"
)

// printFiles prints the files of a configuration, also of one with problems. It looks for itself: a
// Config does not tell where its specs are from.
func (a *app) printFiles() error {
	text, found := "", false
	paths := a.configs
	if len(paths) == 0 {
		paths = configs.DefaultPaths()
	}
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && len(a.configs) == 0 {
			continue
		}
		found = true
		text += describePath(path)
	}
	if !found {
		text = "no file: there is neither " + strings.Join(paths, " nor ") + "\n"
	}
	_, err := a.stdout.Write([]byte(text))
	return err
}

// describePath has a line for each file that a path stands for.
func describePath(path string) string {
	files, err := configs.TOMLFiles(path)
	if err != nil { // it is no directory, or its reader is told why not
		return describeFile(path)
	}
	if len(files) == 0 {
		return line(path) + ": a directory without *.toml files\n"
	}
	text := ""
	for _, file := range files {
		text += describeFile(file)
	}
	return text
}

// describeFile says how many specs a file has. A pipe is not read: its reader would wait for ever.
func describeFile(file string) string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return line(file) + ": cannot be read\n"
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return line(file) + ": cannot be read\n"
	}
	specs, err := configs.CountSpecs(data)
	if err != nil {
		return line(file) + ": is not valid TOML\n"
	}
	return fmt.Sprintf("%s: %s\n", line(file), plural(specs, "spec"))
}

package pagetest

import (
	"errors"
	"slices"
	"testing"
)

func TestSteps(t *testing.T) {
	file, script := Block{"toml", 3, "# /etc/a.toml\nx = 1\n"}, Block{"sh", 6, "#!/bin/sh\n# /bin/a\n"}
	commands, output := Block{"sh", 9, "a\nb\n"}, Block{"text", 13, "done\n"}
	for _, tt := range []struct {
		name   string
		blocks []Block
		want   []Step
		err    string
	}{
		{"all", []Block{file, commands, output, commands, script}, []Step{{file, ""}, {commands, "done\n"}, {commands, ""}, {script, ""}}, ""},
		{"the first", []Block{output}, nil, "13: neither a file, nor commands, nor their output"},
		{"after an output", []Block{commands, output, output}, nil, "13: neither a file, nor commands, nor their output"},
		{"after a script", []Block{script, output}, nil, "13: neither a file, nor commands, nor their output"},
	} {
		got, err := steps(tt.blocks)
		if !slices.Equal(got, tt.want) || err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
			t.Errorf("%s: got %+v, %v", tt.name, got, err)
		}
	}
	if got, want := (Step{commands, "done\n"}).Commands(), []Command{{"a", 9, ""}, {"b", 10, "done\n"}}; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestCommandLooks(t *testing.T) {
	for text, want := range map[string]bool{
		"healthd status": true, "healthd check --compose a": true, "curl -s http://a": true, `echo "show stat" | socat stdio a`: true,
		"healthd reload": false, "echo a > b": false, "docker compose up -d": false,
	} {
		if got := (Command{Text: text}).Looks(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestCommandCheck(t *testing.T) {
	failed := errors.New("exit code 1")
	const refusal = "a.toml:1: wrong\nhealthd: cannot reload: 1 problem\n"
	for _, tt := range []struct {
		shown, printed string
		err            error
		right          bool
	}{
		{"", "anything", nil, true},
		{"", "", failed, false},
		{"done\n", "done\n", nil, true},
		{"done\n", "else\n", nil, false},
		{"done\n", "done\n", failed, false},
		{refusal, refusal, failed, true},
		{refusal, refusal, nil, false},
		{refusal, "healthd: cannot reload: 2 problems\n", failed, false},
	} {
		if err := (Command{Output: tt.shown}).Check(tt.printed, tt.err); (err == nil) != tt.right {
			t.Errorf("%q shown, %q printed, %v: %v", tt.shown, tt.printed, tt.err, err)
		}
	}
}

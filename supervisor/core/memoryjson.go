package core

import (
	"encoding/json"
	"fmt"
)

// memoryVersion is the version of a Memory's JSON form. All versions up to this one can
// be read.
const memoryVersion = 2

// plainMemory is a Memory without its methods.
type plainMemory Memory

// MarshalJSON writes the newest version.
func (m Memory) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Version int `json:"version"`
		plainMemory
	}{memoryVersion, plainMemory(m)})
}

// UnmarshalJSON reads a Memory of this version or an earlier one. One of a later version
// is an error: what it means is not known here.
func (m *Memory) UnmarshalJSON(data []byte) error {
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch {
	case v.Version > memoryVersion:
		return fmt.Errorf("version %d of a container's memory is newer than %d, which this healthd reads", v.Version, memoryVersion)
	case v.Version == memoryVersion:
		return json.Unmarshal(data, (*plainMemory)(m))
	}
	var old memoryV1
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}
	*m = old.memory()
	return nil
}

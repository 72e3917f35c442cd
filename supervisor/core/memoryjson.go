package core

import (
	"encoding/json"
	"fmt"
)

// memoryVersion is the version of a Memory's JSON form. UnmarshalJSON reads this one and
// all earlier ones.
const memoryVersion = 2

// plainMemory is a Memory without its methods.
type plainMemory Memory

// MarshalJSON writes version memoryVersion.
func (m Memory) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Version int `json:"version"`
		plainMemory
	}{memoryVersion, plainMemory(m)})
}

// UnmarshalJSON reads a Memory of this version or an earlier one. A later version is an
// error.
func (m *Memory) UnmarshalJSON(data []byte) error {
	var v struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch {
	case v.Version > memoryVersion:
		return fmt.Errorf("a container's memory has version %d, this healthd reads versions up to %d", v.Version, memoryVersion)
	case v.Version == memoryVersion:
		m.Kept = &Kept{}
		if err := json.Unmarshal(data, (*plainMemory)(m)); err != nil {
			return err
		}
		return m.check()
	}
	var old memoryV1
	if err := json.Unmarshal(data, &old); err != nil {
		return err
	}
	*m = old.memory()
	return m.check()
}

// check refuses causes that this healthd does not know: they index arrays.
func (m *Memory) check() error {
	for _, cause := range []Cause{m.Action.Stopping, m.Action.Restart, m.Ending.Overtaken} {
		if cause >= numCauses {
			return fmt.Errorf("cause %d is not known", uint8(cause))
		}
	}
	return nil
}

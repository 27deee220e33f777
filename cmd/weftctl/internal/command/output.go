package command

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

func (e *environment) checkFormat() error {
	switch e.format {
	case "", "json", "yaml":
		return nil
	}
	return usageError{fmt.Errorf("there is no output format %q: choose json or yaml, or leave -o away for text", e.format)}
}

// print writes the value in the format that was asked for, or as text.
func (e *environment) print(value any, text func(io.Writer)) error {
	switch e.format {
	case "json":
		encoder := json.NewEncoder(e.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	case "yaml":
		data, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		_, err = e.out.Write(data)
		return err
	}
	text(e.out)
	return nil
}

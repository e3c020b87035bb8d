// Prints what OpenAPI does not say of the Go types behind the definitions on standard input: which scalars are
// pointers, what is written as null when it is not set, and the names of scalar types. The Kubernetes of the test bed
// is the one that is asked, since this is a program of its module.
//
// With the argument "protobuf" it prints the numbers and types of their fields on the wire instead.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

type definition struct {
	Kinds      []schema.GroupVersionKind  `json:"x-kubernetes-group-version-kind"`
	Properties map[string]json.RawMessage `json:"properties"`
}

type facts struct {
	Nulls    []string          `json:"nulls,omitempty"`
	Pointers []string          `json:"pointers,omitempty"`
	Types    map[string]string `json:"types,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "go fields:", err)
		os.Exit(1)
	}
}

func run() error {
	var definitions map[string]definition
	if err := json.NewDecoder(os.Stdin).Decode(&definitions); err != nil {
		return fmt.Errorf("the definitions: %w", err)
	}
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	if len(os.Args) == 2 && os.Args[1] == "protobuf" {
		return wire(definitions)
	}
	types := map[string]reflect.Type{}
	for name, definition := range definitions {
		for _, kind := range definition.Kinds {
			object, err := scheme.Scheme.New(kind)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			collect(reflect.TypeOf(object), types)
		}
	}
	var lines []string
	for name, definition := range definitions {
		if len(definition.Properties) == 0 {
			continue
		}
		known, ok := types[name]
		if !ok {
			return fmt.Errorf("no kind has the type of %s", name)
		}
		facts, err := of(known)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if reflect.ValueOf(facts).IsZero() {
			continue
		}
		line, err := json.Marshal(facts)
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%q:%s", name, line))
	}
	slices.Sort(lines)
	fmt.Printf("{\n%s\n}\n", strings.Join(lines, ",\n"))
	return nil
}

// collect finds the structs that a type consists of, by the names of their definitions.
func collect(t reflect.Type, found map[string]reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collect(t.Elem(), found)
	case reflect.Struct:
		name := named(t)
		if _, ok := found[name]; ok {
			return
		}
		found[name] = t
		for field := range t.Fields() {
			collect(field.Type, found)
		}
	}
}

// named is the name of a type's definition, as in k8s.io/api/core/v1, where Pod is io.k8s.api.core.v1.Pod.
func named(t reflect.Type) string {
	return "io.k8s." + strings.ReplaceAll(strings.TrimPrefix(t.PkgPath(), "k8s.io/"), "/", ".") + "." + t.Name()
}

func of(t reflect.Type) (facts, error) {
	facts := facts{Types: map[string]string{}}
	scalars(t, &facts)
	slices.Sort(facts.Pointers)
	if len(facts.Types) == 0 {
		facts.Types = nil
	}
	zero, err := json.Marshal(reflect.Zero(t).Interface())
	if err != nil {
		return facts, err
	}
	var fields map[string]any
	if err := json.Unmarshal(zero, &fields); err != nil {
		return facts, err
	}
	for name, value := range fields {
		if value == nil {
			facts.Nulls = append(facts.Nulls, name)
		}
	}
	slices.Sort(facts.Nulls)
	return facts, nil
}

// scalars tells of the fields of a struct, those of the structs inlined into it included.
func scalars(t reflect.Type, facts *facts) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		value := field.Type
		if name == "" && field.Anonymous {
			scalars(value, facts)
			continue
		}
		isPointer := value.Kind() == reflect.Pointer
		if isPointer {
			value = value.Elem()
		}
		if name == "-" || !isScalar(value.Kind()) {
			continue
		}
		if isPointer {
			facts.Pointers = append(facts.Pointers, name)
		}
		if value.PkgPath() != "" {
			facts.Types[name] = value.String()
		}
	}
}

func isScalar(kind reflect.Kind) bool {
	return kind == reflect.String || reflect.Bool <= kind && kind <= reflect.Float64
}

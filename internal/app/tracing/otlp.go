package tracing

import (
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// tracesData returns spans as OTLP's message, grouped by resource and scope. A TracesData is encoded like an
// ExportTraceServiceRequest, whose package imports gRPC.
func tracesData(spans []sdk.ReadOnlySpan) *tracepb.TracesData {
	type group struct {
		resource attribute.Distinct
		scope    instrumentation.Scope
	}
	groups := map[group]*tracepb.ScopeSpans{}
	data := &tracepb.TracesData{}
	for _, s := range spans {
		resource, scope := s.Resource(), s.InstrumentationScope()
		key := group{resource.Equivalent(), scope}
		if groups[key] == nil {
			groups[key] = &tracepb.ScopeSpans{
				Scope: &commonpb.InstrumentationScope{
					Name:       scope.Name,
					Version:    scope.Version,
					Attributes: keyValues(scope.Attributes.ToSlice()),
				},
				SchemaUrl: scope.SchemaURL,
			}
			data.ResourceSpans = append(data.ResourceSpans, &tracepb.ResourceSpans{
				Resource:   &resourcepb.Resource{Attributes: keyValues(resource.Attributes())},
				ScopeSpans: []*tracepb.ScopeSpans{groups[key]},
				SchemaUrl:  resource.SchemaURL(),
			})
		}
		groups[key].Spans = append(groups[key].Spans, spanMessage(s))
	}
	return data
}

func spanMessage(s sdk.ReadOnlySpan) *tracepb.Span {
	context, parent := s.SpanContext(), s.Parent()
	traceID, spanID, parentID := context.TraceID(), context.SpanID(), parent.SpanID()
	m := &tracepb.Span{
		TraceId:                traceID[:],
		SpanId:                 spanID[:],
		TraceState:             context.TraceState().String(),
		Flags:                  flags(context.TraceFlags(), parent.IsRemote()),
		Name:                   s.Name(),
		Kind:                   tracepb.Span_SpanKind(s.SpanKind()), // the numbers are the same
		StartTimeUnixNano:      unixNano(s.StartTime()),
		EndTimeUnixNano:        unixNano(s.EndTime()),
		Attributes:             keyValues(s.Attributes()),
		DroppedAttributesCount: count(s.DroppedAttributes()),
		DroppedEventsCount:     count(s.DroppedEvents()),
		DroppedLinksCount:      count(s.DroppedLinks()),
		Status:                 &tracepb.Status{Message: s.Status().Description},
	}
	if parentID.IsValid() {
		m.ParentSpanId = parentID[:]
	}
	switch s.Status().Code {
	case codes.Ok:
		m.Status.Code = tracepb.Status_STATUS_CODE_OK
	case codes.Error:
		m.Status.Code = tracepb.Status_STATUS_CODE_ERROR
	}
	for _, e := range s.Events() {
		m.Events = append(m.Events, &tracepb.Span_Event{
			TimeUnixNano:           unixNano(e.Time),
			Name:                   e.Name,
			Attributes:             keyValues(e.Attributes),
			DroppedAttributesCount: count(e.DroppedAttributeCount),
		})
	}
	for _, l := range s.Links() {
		traceID, spanID := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		m.Links = append(m.Links, &tracepb.Span_Link{
			TraceId:                traceID[:],
			SpanId:                 spanID[:],
			TraceState:             l.SpanContext.TraceState().String(),
			Flags:                  flags(l.SpanContext.TraceFlags(), l.SpanContext.IsRemote()),
			Attributes:             keyValues(l.Attributes),
			DroppedAttributesCount: count(l.DroppedAttributeCount),
		})
	}
	return m
}

// flags adds OTLP's flags to a trace's, which tell whether the parent or the linked span is in
// another process.
func flags(f trace.TraceFlags, remote bool) uint32 {
	all := uint32(f) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if remote {
		all |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return all
}

func unixNano(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

func count(n int) uint32 { return uint32(min(max(0, n), math.MaxUint32)) }

func keyValues(attributes []attribute.KeyValue) []*commonpb.KeyValue {
	messages := make([]*commonpb.KeyValue, len(attributes))
	for i, a := range attributes {
		messages[i] = &commonpb.KeyValue{Key: string(a.Key), Value: anyValue(a.Value)}
	}
	return messages
}

func anyValue(v attribute.Value) *commonpb.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.AsInt64()}}
	case attribute.FLOAT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()}}
	case attribute.STRING:
		// Clients choose bucket names. Invalid UTF-8 would fail the whole batch.
		valid := strings.ToValidUTF8(v.AsString(), "\uFFFD")
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid}}
	case attribute.BYTESLICE:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: v.AsByteSlice()}}
	case attribute.BOOLSLICE:
		return arrayValue(v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return arrayValue(v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return arrayValue(v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		return arrayValue(v.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		return arrayValue(v.AsSlice(), func(element attribute.Value) attribute.Value { return element })
	case attribute.MAP:
		list := &commonpb.KeyValueList{Values: keyValues(v.AsMap())}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: list}}
	}
	return &commonpb.AnyValue{} // EMPTY
}

func arrayValue[T any](elements []T, value func(T) attribute.Value) *commonpb.AnyValue {
	array := &commonpb.ArrayValue{Values: make([]*commonpb.AnyValue, len(elements))}
	for i, e := range elements {
		array.Values[i] = anyValue(value(e))
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: array}}
}

//! The table.

use super::{Form, KindDescription, Setting};

/// All kinds, in the order in which a form offers them.
pub const KINDS: &[KindDescription] = &[
    KindDescription {
        kind: "select",
        makes: "some channels, in another order",
        settings: &[
            INPUT,
            needed("channels", Form::ChannelNames, r#"["a", "b"]"#, "channels of the output, in this order"),
        ],
    },
    KindDescription {
        kind: "calibrate",
        makes: "channels in other units",
        settings: &[
            INPUT,
            needed(
                "channels",
                Form::Calibrations,
                r#"{"a": {"scale": 0.1, "offset": 0, "unit": "bar"}}"#,
                "value × scale + offset, in this unit; other channels stay as they are",
            ),
        ],
    },
    KindDescription {
        kind: "thin",
        makes: "least, greatest and mean value, and number of samples, of each window",
        settings: &[INPUT, needed("every", Form::Every, r#""100ms""#, WINDOW)],
    },
    KindDescription {
        kind: "reduce",
        makes: "statistics of each window",
        settings: &[
            INPUT,
            needed("every", Form::Every, r#""100ms""#, WINDOW),
            needed(
                "statistics",
                Form::Statistics,
                r#"["mean", "q99"]"#,
                "min, max, mean, rms, std, n, or quantiles: q50, q99.9",
            ),
        ],
    },
    KindDescription {
        kind: "filter",
        makes: "every channel without some of its frequencies",
        settings: &[
            INPUT,
            needed("response", Form::Response, r#"{"lowpass": 50}"#, "frequencies that pass, in Hz"),
            optional(
                "order",
                Form::Choice { of: &["2", "4", "6", "8"] },
                "4",
                "4",
                "steepness: 6 dB per octave and order",
            ),
        ],
    },
    KindDescription {
        kind: "resample",
        makes: "every channel at another rate",
        settings: &[
            INPUT,
            needed("rate", Form::Rate, r#""48k""#, "samples per second, or a fraction of them: 1000/3"),
        ],
    },
    KindDescription {
        kind: "spectrum",
        makes: "power of every channel by frequency",
        settings: &[
            INPUT,
            needed("size", Form::Every, "1024", "samples of a segment, or their time"),
            optional(
                "overlap",
                Form::Number,
                "0.5",
                "0.5",
                "part of a segment that the next one has, too: 0 to 0.99",
            ),
            optional(
                "window",
                Form::Choice { of: &["hann", "rectangular", "blackman-harris", "flattop"] },
                r#""flattop""#,
                r#""hann""#,
                "weights of a segment's samples",
            ),
            optional(
                "scale",
                Form::Choice { of: &["density", "power"] },
                r#""power""#,
                r#""density""#,
                "density: V²/Hz for an input in V; power: V²",
            ),
            optional(
                "average",
                Form::Whole { least: 1, most: 4000 },
                "8",
                "1",
                "segments whose mean is one sample",
            ),
        ],
    },
    KindDescription {
        kind: "derive",
        makes: "one channel, value, computed by an expression",
        settings: &[
            needed(
                "expression",
                Form::Expression,
                r#""a * 2""#,
                "over the variables, such as a - b or sqrt(a)",
            ),
            VARIABLES,
            optional(
                "unit",
                Form::Text,
                r#""W""#,
                "",
                "unit of the result, if it does not follow from the inputs",
            ),
            GRID,
        ],
    },
    KindDescription {
        kind: "align",
        makes: "channels of several streams side by side",
        settings: &[VARIABLES, GRID],
    },
    KindDescription {
        kind: "alarm",
        makes: "changes of state of channels with limits, as events",
        settings: &[
            needed(
                "input",
                Form::Channels,
                r#""lab/probe:a""#,
                "channels of one stream, with the same limits",
            ),
            optional("low_alarm", Form::Number, "1", "", "values at or below are an alarm"),
            optional("low_warning", Form::Number, "2", "", "values at or below are a warning"),
            optional("high_warning", Form::Number, "3", "", "values at or above are a warning"),
            optional("high_alarm", Form::Number, "4", "", "values at or above are an alarm"),
            optional(
                "hysteresis",
                Form::Number,
                "0.1",
                "0.0",
                "distance from a limit, inside, at which it is left",
            ),
            optional("hold", Form::Every, r#""100ms""#, "1", "time or samples until a change is told"),
            optional(
                "silence",
                Form::Every,
                r#""5s""#,
                "",
                "delay of samples at which the state is unknown; 2s",
            ),
        ],
    },
    KindDescription {
        kind: "trigger",
        makes: "crossings of a level, as events, each with the samples around it",
        settings: &[
            needed("input", Form::Channel, r#""lab/probe:a""#, "the channel, stream:channel"),
            optional(
                "channels",
                Form::ChannelNames,
                r#"["a", "b"]"#,
                "",
                "channels of a stretch; the one that triggers",
            ),
            needed("level", Form::Number, "250", "in the unit of the channel"),
            optional(
                "edge",
                Form::Choice { of: &["rising", "falling", "either"] },
                r#""falling""#,
                r#""rising""#,
                "direction of a crossing",
            ),
            optional(
                "hysteresis",
                Form::Number,
                "0.1",
                "0.0",
                "distance from the level that arms the trigger",
            ),
            optional("before", Form::Every, r#""2ms""#, "0", "time or samples in front of a crossing"),
            needed("after", Form::Every, r#""8ms""#, "time or samples behind a crossing"),
            optional(
                "holdoff",
                Form::Every,
                r#""20ms""#,
                "",
                "time in which no other crossing counts; a stretch",
            ),
        ],
    },
    KindDescription {
        kind: "publish",
        makes: "the stream under another name, or its windows",
        settings: &[
            INPUT,
            optional("every", Form::Every, r#""100ms""#, "", "window as of thin; every sample without"),
            optional(
                "priority",
                Form::Whole { least: 0, most: 255 },
                "5",
                "",
                "on links of relays; that of the link without",
            ),
        ],
    },
    KindDescription {
        kind: "operator",
        makes: "results of a function in Python, in a process of its own",
        settings: &[
            needed("inputs", Form::Streams, r#"["lab/probe"]"#, "streams; the first gives the grid"),
            needed(
                "python",
                Form::Text,
                r#""FILE.py:FUNCTION""#,
                "FILE.py:FUNCTION in the folder monitor.programs",
            ),
            optional(
                "every",
                Form::Whole { least: 1, most: 1 << 37 },
                "100",
                "",
                "input samples per output sample",
            ),
            optional("dtype", Form::Choice { of: DTYPES }, r#""f4""#, "", "type of the output; f8"),
            optional(
                "channels",
                Form::OutputChannels,
                r#"[{"name": "rms", "unit": "V"}]"#,
                "",
                "channels of the output; those that the function declares",
            ),
            optional(
                "incomplete",
                Form::Choice { of: &["hole", "give"] },
                r#""give""#,
                "",
                "samples with missing elements: a hole, or given with a mask",
            ),
            optional("settings", Form::Object, r#"{"share": 0.5}"#, "", "arguments of the function, by name"),
            optional("memory", Form::Text, r#""512MiB""#, "", "memory of its process; not limited without"),
        ],
    },
];

const WINDOW: &str = "length of a window: samples (100), or a time (100ms)";
const DTYPES: &[&str] =
    &["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f4", "f8", "c8", "c16", "bool"];
const INPUT: Setting = needed("input", Form::Stream, r#""lab/probe""#, "the stream");
const VARIABLES: Setting =
    needed("inputs", Form::Variables, r#"{"a": "stream:channel"}"#, "each variable with its stream:channel");
const GRID: Setting =
    optional("grid", Form::Variable, r#""a""#, "", "variable whose samples give the grid; the first by name");

const fn needed(name: &'static str, form: Form, example: &'static str, words: &'static str) -> Setting {
    Setting { name, form, needed: true, example, default: "", words }
}

const fn optional(
    name: &'static str,
    form: Form,
    example: &'static str,
    default: &'static str,
    words: &'static str,
) -> Setting {
    Setting { name, form, needed: false, example, default, words }
}

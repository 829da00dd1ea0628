//! Layout of a frame: the tables of `docs/protocol/page.md` as types.

use zerocopy::byteorder::little_endian::{F32, F64, I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Declares a layout, and in tests the rows that are compared with the page.
macro_rules! layout {
    ($(#[doc = $doc:literal])+ $name:ident { $($field:ident: $type:ty,)+ }) => {
        $(#[doc = $doc])+
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
        #[repr(C)]
        pub(super) struct $name {
            $(pub(super) $field: $type,)+
        }

        // Parts are contiguous, and a typed array over any of them must be aligned.
        const _: () = assert!(size_of::<$name>() % 8 == 0);

        #[cfg(test)]
        impl $name {
            pub(super) const FIELDS: &[(usize, usize, &str)] =
                &[$((core::mem::offset_of!(Self, $field), size_of::<$type>(), stringify!($field)),)+];
        }
    };
}

/// What the heads of all kinds of frames begin with.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct Head {
    pub(super) magic: U16,
    pub(super) version: u8,
    pub(super) kind: u8,
    pub(super) frame: U32,
    pub(super) view: U32,
}

layout! {
    /// Head of a frame of traces.
    Frame {
        magic: U16,
        version: u8,
        kind: u8,
        frame: U32,
        view: U32,
        trace_count: U16,
        flags: U16,
        now_ns: I64,
        from_ns: I64,
        column_ns: U64,
        column_count: U32,
        dropped_frames: U32,
    }
}

layout! {
    /// Head of every trace.
    Trace {
        index: U16,
        state: u8,
        mode: u8,
        count: U32,
        gap_count: U32,
        first_column: U32,
        samples_per_column: F32,
        kept_columns: U32,
        newest_ns: I64,
        newest_value: F64,
        live_memory_from_ns: I64,
    }
}

layout! {
    /// One column of a trace.
    Extremes {
        min: F32,
        max: F32,
    }
}

layout! {
    /// One column of a trace whose values f32 does not hold.
    ExtremesF64 {
        min: F64,
        max: F64,
    }
}

layout! {
    /// Means of four columns.
    MeanShares {
        mean_shares: [U16; 4],
    }
}

impl MeanShares {
    /// Number of columns.
    pub(super) const COUNT: usize = 4;
}

layout! {
    /// One point of a trace.
    Point {
        offset_ns: I64,
        value: F64,
    }
}

layout! {
    /// One gap of a trace.
    Gap {
        from_ns: I64,
        to_ns: I64,
        lost_elements: U64,
        stage: u8,
        gap_flags: u8,
        inherited_hop: u8,
        inherited_outcome: u8,
        gap_reserved: [u8; 4],
        first_index: U64,
        samples: U64,
    }
}

layout! {
    /// Head of a frame that shows one sample.
    Picture {
        magic: U16,
        version: u8,
        kind: u8,
        frame: U32,
        view: U32,
        state: u8,
        form: u8,
        picture_flags: u8,
        obstacle: u8,
        now_ns: I64,
        sample_ns: I64,
        sample_index: U64,
        skipped_samples: U64,
        rows: U32,
        columns: U32,
        sample_rows: U32,
        sample_columns: U32,
        block_rows: U32,
        block_columns: U32,
        low: F64,
        high: F64,
        kept_from_ns: I64,
        dropped_frames: U32,
        planes: U32,
        plane: U32,
        picture_reserved: U32,
    }
}

layout! {
    /// Head of a frame of newest values.
    Values {
        magic: U16,
        version: u8,
        kind: u8,
        frame: U32,
        view: U32,
        row_count: U16,
        values_flags: U16,
        now_ns: I64,
        dropped_frames: U32,
        values_reserved: U32,
    }
}

layout! {
    /// Head of every row of newest values.
    Row {
        index: U16,
        state: u8,
        row_form: u8,
        value_count: u8,
        lost_values: u8,
        no_sample: u8,
        row_reserved: u8,
        elements: U32,
        lost_elements: U32,
        sample_ns: I64,
        low: F64,
        high: F64,
    }
}

layout! {
    /// One value of a row; a complex one has two.
    Value {
        value: [u8; 8],
    }
}

layout! {
    /// Head of a frame that shows vectors over time.
    Waterfall {
        magic: U16,
        version: u8,
        kind: u8,
        frame: U32,
        view: U32,
        state: u8,
        waterfall_flags: u8,
        waterfall_reserved: U16,
        now_ns: I64,
        first_column: I64,
        column_ns: U64,
        column_count: U32,
        sent_columns: U32,
        bins: U32,
        bin_elements: U32,
        elements: U32,
        rows: U32,
        planes: U32,
        dropped_frames: U32,
        live_memory_from_ns: I64,
        plane: U32,
        plane_reserved: U32,
    }
}

layout! {
    /// One column of a waterfall, before the values of all.
    WaterfallColumn {
        place: U32,
        present: U32,
        expected: U32,
        column_reserved: U32,
    }
}

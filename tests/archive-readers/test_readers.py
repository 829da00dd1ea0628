"""Third-party tools read an archive directly: pyarrow both formats, DuckDB the Parquet, any tool the JSON.

    python -m venv VENV && VENV/bin/pip install -r tests/archive-readers/requirements.txt
    cargo run -p tallycast-archive --example sample_archive -- DIR
    VENV/bin/python tests/archive-readers/test_readers.py DIR

Every element's bits are `position * 2654435761` cut to its width; samples 40 to 50 are lost on purpose, and of
sample 73 the last two elements of the image never arrived. The program says what it checked; a difference ends it.
"""

import json
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet

PER_SAMPLE = 7
T0_NS = 1_763_756_051_123_456_789
EPOCH = "1763756051000000000-0000000000c0ffee"
INDEX = np.array([i for i in range(100) if not 40 <= i < 50], dtype=np.uint64)
NUMPY = {
    "i8": "<i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "<u1", "u16": "<u2", "u32": "<u4", "u64": "<u8",
    "f4": "<f4", "f8": "<f8", "c8": "<c8", "c16": "<c16", "bool": "?",
}


def expected(dtype):
    """Bytes of all elements, `[samples, elements, width]`, and the mask of those that arrived."""
    width = np.dtype(NUMPY[dtype]).itemsize
    rows = []
    for index in INDEX.tolist():
        for element in range(PER_SAMPLE):
            bits = (index * PER_SAMPLE + element) * 2654435761
            raw = (bits | bits << 64).to_bytes(16 + 8, "little")[:width]
            rows.append(bytes([raw[0] & 1]) if dtype == "bool" else raw)
    values = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(INDEX), PER_SAMPLE, width)
    arrived = np.ones((len(INDEX), PER_SAMPLE), dtype=bool)
    arrived[INDEX.tolist().index(73), 5:] = False
    return values, arrived


def times():
    """1000/3 samples per second: no whole period in nanoseconds, so each time is rounded down separately."""
    block_start = [T0_NS + i // 10 * 10 * 3_000_000 for i in INDEX.tolist()]
    return [start + i % 10 * 3_000_000 for start, i in zip(block_start, INDEX.tolist())]


def elements(column, dtype):
    """Bytes and validity of a column's elements, concatenated."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_fixed_size_list(column.type) and not (dtype in ("c8", "c16") and column.type.list_size == 2):
        column = column.flatten()
    arrived = np.asarray(column.is_valid())
    if dtype in ("c8", "c16"):
        parts = column.values.slice(column.offset * 2, len(column) * 2)
        values = np.asarray(parts).view(np.uint8).reshape(len(column), -1)
    elif dtype == "bool":
        values = np.asarray(column.fill_null(False)).astype(np.uint8).reshape(-1, 1)
    else:
        plain = pa.Array.from_buffers(column.type, len(column), [None, column.buffers()[1]], offset=column.offset)
        values = plain.to_numpy(zero_copy_only=True).view(np.uint8).reshape(len(column), -1)
    return values, arrived


def check_table(table, dtype):
    assert table.column_names[:4] == ["index", "time_ns", "current", "image"], table.column_names
    assert table["index"].to_numpy().tolist() == INDEX.tolist()
    assert table["time_ns"].to_pylist() == times()
    wanted, wanted_arrived = expected(dtype)
    for name, where in (("current", slice(0, 1)), ("image", slice(1, 7))):
        values, arrived = elements(table[name], dtype)
        wanted_here = wanted[:, where].reshape(values.shape)
        assert (arrived == wanted_arrived[:, where].reshape(-1)).all(), (dtype, name)
        assert (values[arrived] == wanted_here[arrived]).all(), (dtype, name)


def check_metadata(schema, dtype):
    assert schema.metadata[b"dtype"] == dtype.encode()
    assert schema.metadata[b"rate"] == b"1000/3"
    assert schema.metadata[b"station"] == b"daq-3"
    assert json.loads(schema.metadata[b"labels"]) == {"device": "probe 1"}
    current = schema.field("current").metadata
    assert (current[b"unit"], current[b"scale"], current[b"offset"], current[b"shape"]) == (b"A", b"0.5", b"1", b"[]")
    assert schema.field("image").metadata[b"shape"] == b"[2,3]"


def epoch_folder(root, run, dtype):
    return root / f"run={run}" / f"stream=lab%2Fprobe-{dtype}" / f"epoch={EPOCH}"


def arrow_streams_are_read_as_they_lie(root):
    for dtype in NUMPY:
        segments = sorted(epoch_folder(root, "arrow", dtype).glob("segment-*.arrows"))
        assert segments, dtype
        tables = []
        for segment in segments:
            with pa.memory_map(str(segment)) as file, pa.ipc.open_stream(file) as reader:
                tables.append(reader.read_all())
        check_table(pa.concat_tables(tables), dtype)
        check_metadata(tables[0].schema, dtype)


def parquet_is_read_as_it_lies(root):
    for dtype in NUMPY:
        folder = epoch_folder(root, "parquet", dtype)
        assert not list(folder.glob("*.arrows")) and not list(folder.glob("*.index")), "compacted segments are gone"
        files = sorted(folder.glob("segment-*.parquet"))
        tables = [pa.parquet.ParquetFile(file).read() for file in files]
        check_table(pa.concat_tables(tables), dtype)
        check_metadata(tables[0].schema, dtype)
        footer = pa.parquet.read_metadata(files[0]).metadata
        assert json.loads(footer[b"tallycast.segment"])["first_index"] == 0


def arrow_data_sets_see_the_folders_as_columns(root):
    files = [str(file) for file in root.glob("run=parquet/stream=lab%2Fprobe-f4/*/*.parquet")]
    data = pa.dataset.dataset(files, partitioning="hive", partition_base_dir=str(root))
    table = data.to_table(columns=["index", "stream", "run"])
    assert set(table["stream"].to_pylist()) == {"lab/probe-f4"}
    assert set(table["run"].to_pylist()) == {"parquet"}
    assert table.num_rows == len(INDEX)


def duckdb_queries_parquet_by_folder(root):
    for dtype in NUMPY:
        # One stream at a time: DuckDB uses the types of the first file for all.
        files = f"{root}/run=*/stream=lab%2Fprobe-{dtype}/epoch=*/*.parquet"
        relation = duckdb.sql(
            "SELECT index, time_ns, current, image, stream, epoch FROM read_parquet(?, hive_partitioning = true)"
            " WHERE run = 'parquet' AND stream = ? ORDER BY index",
            params=[files, f"lab/probe-{dtype}"],
        ).fetchall()
        assert [row[0] for row in relation] == INDEX.tolist(), dtype
        assert [row[1] for row in relation] == times(), dtype
        assert {row[5] for row in relation} == {EPOCH}
        wanted, arrived = expected(dtype)
        for row, values, there in zip(relation, wanted, arrived):
            found = [row[2], *row[3]]
            assert [value is not None for value in found] == there.tolist(), (dtype, row[0])
            for value, raw, is_there in zip(found, values, there):
                if is_there:
                    part = {"c8": "<f4", "c16": "<f8"}.get(dtype, NUMPY[dtype])
                    found_here, wanted_here = np.array(value, dtype=part), raw.view(part)
                    # Through a Python float a signalling NaN becomes a quiet one; its bits are checked by pyarrow above.
                    same = (found_here.reshape(-1) == wanted_here) | ((wanted_here != wanted_here) & (found_here != found_here).reshape(-1))
                    assert same.all(), (dtype, row[0], value)
    newest = duckdb.sql(
        "SELECT stream, make_timestamp_ns(max(time_ns)) FROM read_parquet(?, hive_partitioning = true) GROUP BY ALL",
        params=[f"{root}/run=*/stream=*/epoch=*/*.parquet"],
    ).fetchall()
    assert len(newest) == len(NUMPY)


def gap_maps_and_accounts_are_plain_json(root):
    for run in ("arrow", "parquet"):
        for dtype in NUMPY:
            folder = epoch_folder(root, run, dtype)
            lines = [json.loads(line) for line in (folder / "gaps.jsonl").read_text().splitlines()]
            assert lines[0]["format"] == "tallycast-gaps" and lines[0]["version"] == 1
            (gap,) = [line for line in lines if line["line"] == "gap"]
            assert (gap["first_element"], gap["elements"]) == (40 * PER_SAMPLE, 10 * PER_SAMPLE)
            assert gap["lost"] == {"injected": 10 * PER_SAMPLE} and gap["settled"]
            account = json.loads((folder / "account.json").read_text())
            counters = account["elements"]
            assert account["state"] == "closed" and account["stored_index"] == 100
            assert counters["accepted"] == counters["stored"] == len(INDEX) * PER_SAMPLE - 2
            description = json.loads((folder / "stream.json").read_text())
            assert description["stream"] == f"lab/probe-{dtype}" and description["dtype"] == dtype


def main():
    if len(sys.argv) != 2:
        sys.exit("say where the archive is: test_readers.py DIR (made by: cargo run -p tallycast-archive --example sample_archive -- DIR)")
    root = Path(sys.argv[1])
    checks = [
        arrow_streams_are_read_as_they_lie,
        parquet_is_read_as_it_lies,
        arrow_data_sets_see_the_folders_as_columns,
        duckdb_queries_parquet_by_folder,
        gap_maps_and_accounts_are_plain_json,
    ]
    for check in checks:
        check(root)
        print(f"ok  {check.__name__}")
    print(f"{len(checks)} checks with pyarrow {pa.__version__}, duckdb {duckdb.__version__}")


if __name__ == "__main__":
    main()

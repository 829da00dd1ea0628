//! The kernel's TCP with its default control.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;
use peers::{Whose, cpu_seconds, process};

use crate::{BLOCK_BYTES, Task, Told};

pub(crate) fn send(task: &Task) -> Result<Told> {
    let mut stream = TcpStream::connect(task.address)?;
    let block = vec![7_u8; BLOCK_BYTES];
    let (began, before) = (Instant::now(), cpu_seconds(Whose::Process));
    let mut bytes = 0;
    while began.elapsed() < Duration::from_secs_f64(task.seconds) {
        stream.write_all(&block)?;
        bytes += block.len();
    }
    drop(stream);
    Ok(Told {
        bytes: bytes as f64,
        seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds(Whose::Process) - before,
        again: 0.0,
    })
}

pub(crate) fn receive(task: &Task) -> Result<Told> {
    let listener = TcpListener::bind(task.address)?;
    process::tell("ready", &())?;
    let (mut stream, _) = listener.accept()?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut bytes = stream.read(&mut block)?;
    let (began, before) = (Instant::now(), cpu_seconds(Whose::Process));
    let mut last = began;
    loop {
        let count = stream.read(&mut block)?;
        if count == 0 {
            break;
        }
        last = Instant::now();
        bytes += count;
    }
    Ok(Told {
        bytes: bytes as f64,
        seconds: (last - began).as_secs_f64(),
        cpu_seconds: cpu_seconds(Whose::Process) - before,
        again: 0.0,
    })
}

//! The commands of a document, in the order in which a reader meets them.

/// Block of commands of a document.
pub(super) struct Block {
    /// Text between the block before and this one.
    pub(super) prose: String,
    pub(super) commands: Vec<Command>,
}

/// Command as it is printed.
pub(super) struct Command {
    /// Comment on the line above; empty if there is none.
    pub(super) comment: String,
    pub(super) text: String,
}

impl Block {
    /// Returns true if the text before the block tells the reader to end what runs.
    pub(super) fn ends_what_runs(&self) -> bool {
        self.prose.contains("End the `tollgate up`") || self.prose.contains("End the processes")
    }
}

/// Returns the blocks of a document that are for a shell.
pub(super) fn blocks(document: &str) -> Vec<Block> {
    let mut parts = document.split("```sh\n");
    let mut prose = parts.next().unwrap_or_default();
    let mut blocks = Vec::new();
    for part in parts {
        let (text, after) = part.split_once("\n```").expect("a block has an end");
        blocks.push(Block { prose: prose.to_owned(), commands: commands(text) });
        prose = after;
    }
    blocks
}

/// Returns the commands of a block. One that ends in `\` or `|` goes on in the next line.
fn commands(block: &str) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let (mut comment, mut continues) = (String::new(), false);
    for line in block.lines() {
        if let Some(text) = line.strip_prefix("# ") {
            text.clone_into(&mut comment);
            continue;
        }
        match commands.last_mut().filter(|_| continues) {
            Some(command) => command.text.extend(["\n", line]),
            None => commands.push(Command { comment: std::mem::take(&mut comment), text: line.to_owned() }),
        }
        continues = line.ends_with(['\\', '|']);
    }
    commands
}
